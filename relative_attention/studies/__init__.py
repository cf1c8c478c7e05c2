"""Studies: recipes that differ in one thing, trained with several seeds.

study.py   what a study is: the YAML, its rows, the recipe of each run
runs.py    what is missing is trained, and a record of each run is kept
table.py   means over seeds, and the paired bootstrap between rows
"""

from relative_attention.studies.runs import results_path
from relative_attention.studies.runs import run_study
from relative_attention.studies.runs import study_list
from relative_attention.studies.study import Study
from relative_attention.studies.study import find_study

__all__ = ["Study", "find_study", "results_path", "run_study", "study_list"]
