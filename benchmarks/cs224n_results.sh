#!/usr/bin/env bash
# The runs of docs/results.md, one after the other: full protocol, packaged MiniLM, three seeds.
#
#   benchmarks/cs224n_results.sh DATA_DIR [RUNS_DIR]
#
# Start it again after a kill: finished runs are skipped, the one under way is resumed. About ten
# hours on 2 cores. Commit first: a report made from a changed tree says so. The page is renewed
# when all runs are done, for renewing it changes the tree.
set -euo pipefail
data=$(realpath "$1")
cd "$(dirname "$0")/.."
runs=${2:-runs}
python=${PYTHON:-.venv/bin/python}

finished=()
run() { # NAME CONFIG [key=value ...]
  local name=$1 config=$2 seed
  shift 2
  for seed in 1 2 3; do
    local directory=$runs/$name-$seed
    if [ ! -f "$directory/report.json" ]; then
      "$python" run_multitask.py "$config" data_dir="$data" seed=$seed \
        output_dir="$directory" "$@" --resume
    fi
    finished+=("$directory")
  done
}

multi=configs/cs224n_minilm.yaml
cross=configs/cs224n_minilm_cross.yaml
run siamese $multi
run single-sst $multi tasks.qqp=null tasks.sts=null training.epochs=3
run single-qqp $multi tasks.sst=null tasks.sts=null
run single-sts $multi tasks.sst=null tasks.qqp=null training.epochs=4
run best configs/cs224n_best.yaml
run pals configs/cs224n_pals.yaml
run houlsby $multi training.adapter_lr=1e-3 defaults.adapter=houlsby
run mlm configs/cs224n_mlm.yaml
run joint $multi training.combine=joint training.conflict_steps=10
run pcgrad $multi training.combine=joint training.gradient_surgery=pcgrad
run smart $multi training.combine=joint 'defaults.smart={weight: 1.0, dropout: independent}'
run cross $cross
run cross-single-qqp $cross tasks.sst=null tasks.sts=null
run cross-single-sts $cross tasks.sst=null tasks.qqp=null training.epochs=4
"$python" -m tools.measured_docs "${finished[@]}"
