"""The bench at true size: the figures that hold or do not hold at E2B's geometry, on the machine it runs on."""
