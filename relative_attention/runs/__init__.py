"""Training runs, from recipe to results: one, and studies of many."""

from relative_attention.runs.distill import distill
from relative_attention.runs.find_recipe import find_recipe
from relative_attention.runs.recipe import Recipe
from relative_attention.runs.run_directory import check_resume
from relative_attention.runs.run_study import run_study
from relative_attention.runs.study import Study
from relative_attention.runs.study import find_study
from relative_attention.runs.study_list import study_list
from relative_attention.runs.study_plan import StudyPlaces
from relative_attention.runs.study_plan import study_jobs
from relative_attention.runs.train import train

__all__ = [
    "Recipe",
    "Study",
    "StudyPlaces",
    "check_resume",
    "distill",
    "find_recipe",
    "find_study",
    "run_study",
    "study_jobs",
    "study_list",
    "train",
]
