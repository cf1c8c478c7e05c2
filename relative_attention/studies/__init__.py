"""Studies: recipes that differ in one respect, trained with several seeds.

study.py   a study: its YAML, its rows, the recipe of each run
runs.py    trains missing runs, and keeps a record of each run
table.py   means over seeds, and the paired bootstrap between rows
"""

from relative_attention.studies.runs import results_path
from relative_attention.studies.runs import run_study
from relative_attention.studies.runs import study_list
from relative_attention.studies.study import Study
from relative_attention.studies.study import find_study

__all__ = ["Study", "find_study", "results_path", "run_study", "study_list"]
