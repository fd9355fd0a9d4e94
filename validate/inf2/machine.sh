# The part of a rented machine's user data that is the same for every run; what it is told comes before it, as variables:
# MINUTES IMAGE JOB LOG STATUS REGION EVERY. Before anything else the machine sets the timer of its own end: whoever asked
# for it may be gone.
if ! shutdown -h "+$MINUTES"; then
  (sleep "$((MINUTES * 60))"; poweroff -f) &
fi
# A machine that starts again has neither timer nor work.
PER_BOOT="${PER_BOOT:-/var/lib/cloud/scripts/per-boot}"
mkdir -p "$PER_BOOT" && printf '#!/bin/sh\nshutdown -h now\n' >"$PER_BOOT/neff-foundry"
chmod 755 "$PER_BOOT/neff-foundry"

set -uo pipefail
export AWS_DEFAULT_REGION="$REGION" AWS_REGION="$REGION"
record="$(mktemp)"
exec >"$record" 2>&1
sender=
told=

send() { aws s3 cp --only-show-errors "$record" "$LOG"; }

finish() {
  code=$?
  trap - EXIT
  [[ -z "$sender" ]] || kill "$sender"
  send
  # Last, as the caller takes it for an end of the machine's own: not where AWS or the timer shuts the machine down, which
  # docker may hear of before this script does.
  if [[ -z "$told" && "$(systemctl is-system-running)" != stopping ]]; then
    echo "{\"code\": $code}" | aws s3 cp --only-show-errors - "$STATUS"
  fi
  shutdown -h now
}
trap finish EXIT
trap 'told=yes; exit 143' HUP INT TERM

while sleep "$EVERY"; do send; done >/dev/null 2>&1 &
sender=$!

host="${IMAGE%%/*}"
if [[ "$host" == *.dkr.ecr.*.amazonaws.com ]]; then
  registry="${host#*.dkr.ecr.}"
  aws ecr get-login-password --region "${registry%%.*}" | docker login --username AWS --password-stdin "$host"
fi
echo "machine: pulling $IMAGE ..."
for try in 1 2 3; do
  docker pull --quiet "$IMAGE" && break
  # Docker may not be up yet, and registries have bad minutes.
  [[ "$try" -lt 3 ]] || { echo "error: the image $IMAGE cannot be pulled"; exit 1; }
  sleep "$EVERY"
done

devices=()
for device in /dev/neuron[0-9]*; do
  [[ ! -e "$device" ]] || devices+=("--device=$device")
done
# The host's network: the instance's role then answers without one more hop for everybody on the machine.
docker run --rm --ipc=host --network=host ${devices[@]+"${devices[@]}"} \
  --env AWS_DEFAULT_REGION --env AWS_REGION "$IMAGE" make hardware "JOB=$JOB"
