#!/usr/bin/env bash
# Run a command with a real SLURM of two nodes, for tests: tests/support/slurm.sh COMMAND ...
# It installs Debian's packages if they are missing, starts munged, slurmctld and a slurmd per node
# in a new directory, sets SLURM_CONF for the command, and ends its jobs and the daemons after it.
# Without root or apt it says so and runs the command without SLURM.
#
# - Jobs of the partition `high` preempt those of `gpu`, the default, which have 30 s of grace.
# - The node n1 has the feature `a100`, n2 has `v100`. Both are this machine.
# - n2 sees an empty directory where SLURM_ONLY_N1 is, if the system lets it have its own mounts.
# - An array has at most 5 tasks.
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
port=$((20000 + RANDOM % 10000))  # so that two of these do not meet

end() {
  scancel --user="$(id -un)" 2>/dev/null || true
  for _ in $(seq 120); do  # KillWait is 10 s
    [ -n "$(squeue --noheader 2>/dev/null)" ] || break
    sleep 0.1
  done
  for daemon in slurmd-n1 slurmd-n2 slurmctld munged; do
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
mkdir "$directory/state" "$directory/spool-n1" "$directory/spool-n2" "$directory/only-n1"
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
StateSaveLocation=$directory/state
SlurmdSpoolDir=$directory/spool-%n
SlurmctldPidFile=$directory/slurmctld.pid
SlurmdPidFile=$directory/slurmd-%n.pid
SlurmctldLogFile=$directory/slurmctld.log
SlurmdLogFile=$directory/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=2,batch_sched_delay=0,bf_interval=2
SlurmdParameters=config_overrides
ReturnToService=2
MaxArraySize=5
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait=10
MpiDefault=none
SwitchType=switch/none
NodeName=DEFAULT CPUs=8 Sockets=1 CoresPerSocket=8 ThreadsPerCore=1
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1)) Feature=a100
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 2)) Feature=v100
PartitionName=gpu Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=30
PartitionName=high Nodes=n1,n2 MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
CONF
export SLURM_CONF="$directory/slurm.conf"
munged --force --key-file="$directory/munge/key" --socket="$directory/munge.socket" \
  --pid-file="$directory/munged.pid" --log-file="$directory/munge/log" \
  --seed-file="$directory/munge/seed"
slurmctld -f "$SLURM_CONF"
slurmd -f "$SLURM_CONF" -N n1
apart='mount -t tmpfs none "$1" && exec slurmd -f "$SLURM_CONF" -N n2'
if unshare --mount bash -c "$apart" bash "$directory/only-n1" 2>/dev/null; then
  export SLURM_ONLY_N1="$directory/only-n1"
else
  slurmd -f "$SLURM_CONF" -N n2
fi
for _ in $(seq 120); do
  if sinfo --noheader --format="%t %D" 2>/dev/null | grep -q "idle 2"; then
    "$@"
    exit
  fi
  sleep 0.5
done
echo "SLURM's nodes did not come up:" >&2
tail -n 20 "$directory"/slurm*.log >&2
exit 1
