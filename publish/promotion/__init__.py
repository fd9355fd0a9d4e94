"""From signed builds to public tags: staged, pulled back, verified, and only then promoted.

Departs from a release script that pushes and then looks: a public tag is moved only to a digest that was pulled back
from the very place it will be public in, and only with every receipt that belongs to it.
"""
