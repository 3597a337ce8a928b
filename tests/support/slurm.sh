#!/usr/bin/env bash
# Run a command with a real SLURM of one node, for tests: tests/support/slurm.sh COMMAND ...
# It installs Debian's packages if they are missing, starts munged, slurmctld and slurmd in a new
# directory, sets SLURM_CONF for the command, and ends the three daemons after it. Without root or
# apt it says so and runs the command without SLURM.
set -eu
packages="slurmctld slurmd slurm-client munge"

installed() { command -v slurmctld slurmd sbatch munged >/dev/null; }

without() {
  echo "without SLURM, so its tests are skipped: $1" >&2
  shift
  exec "$@"
}

if ! installed; then
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || without "$packages need root and apt" "$@"
  log=$(mktemp)
  export DEBIAN_FRONTEND=noninteractive
  { apt-get update && apt-get install -y --no-install-recommends $packages; } >"$log" 2>&1 || true
  installed || without "$packages: $(tail -n 1 "$log")" "$@"
fi

directory=$(mktemp -d "${TMPDIR:-/tmp}/slurm-XXXXXX")
host=$(hostname -s)
cores=$(nproc --all)
port=$((20000 + RANDOM % 10000))  # so that two of these do not meet

end() {
  for daemon in slurmd slurmctld munged; do
    if [ -s "$directory/$daemon.pid" ]; then kill "$(cat "$directory/$daemon.pid")" || true; fi
  done
  for _ in $(seq 100); do  # they delete their files of process ids
    ls "$directory"/*.pid >/dev/null 2>&1 || break
    sleep 0.1
  done
  rm -rf "$directory"
}
trap end EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

chmod 755 "$directory"
mkdir -m 700 "$directory/munge"
mkdir "$directory/state" "$directory/spool"
head -c 1024 /dev/urandom >"$directory/munge/key"
chmod 400 "$directory/munge/key"
cat >"$directory/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$directory/munge.socket
CryptoType=crypto/munge
SlurmctldPort=$port
SlurmdPort=$((port + 1))
StateSaveLocation=$directory/state
SlurmdSpoolDir=$directory/spool
SlurmctldPidFile=$directory/slurmctld.pid
SlurmdPidFile=$directory/slurmd.pid
SlurmctldLogFile=$directory/slurmctld.log
SlurmdLogFile=$directory/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=5
ReturnToService=2
JobRequeue=1
KillWait=10
MpiDefault=none
SwitchType=switch/none
NodeName=$host NodeAddr=127.0.0.1 CPUs=$cores Sockets=1 CoresPerSocket=$cores ThreadsPerCore=1
PartitionName=debug Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF="$directory/slurm.conf"
munged --force --key-file="$directory/munge/key" --socket="$directory/munge.socket" \
  --pid-file="$directory/munged.pid" --log-file="$directory/munge/log" \
  --seed-file="$directory/munge/seed"
slurmctld -f "$SLURM_CONF"
slurmd -f "$SLURM_CONF" -N "$host"
for _ in $(seq 120); do
  if sinfo --noheader --format=%t 2>/dev/null | grep -q idle; then
    "$@"
    exit
  fi
  sleep 0.5
done
echo "SLURM's node did not come up:" >&2
tail -n 20 "$directory"/slurm*.log >&2
exit 1
