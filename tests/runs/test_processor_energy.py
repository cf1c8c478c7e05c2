"""The energy of the processors, from a folder such as Linux has."""

import json
import shutil

import pytest

import relative_attention as ra
from relative_attention.runs import processor_energy
from relative_attention.runs.callbacks import run_cost
from relative_attention.runs.processor_energy import ProcessorEnergy
from relative_attention.saving.model_directory import load_results
from tests.runs.conftest import QUICK
from tests.small_run import RECIPE

RANGE = 262_143_328_850


@pytest.fixture
def counters(tmp_path):
    """`counters(path, microjoules)`: sets one; two processors and more."""
    folder = tmp_path / "powercap"

    def set_to(zone, microjoules, name="package-0"):
        (folder / zone).mkdir(parents=True, exist_ok=True)
        (folder / zone / "name").write_text(f"{name}\n")
        (folder / zone / "energy_uj").write_text(f"{microjoules}\n")
        (folder / zone / "max_energy_range_uj").write_text(f"{RANGE}\n")

    set_to("intel-rapl:0", 5_000_000)
    set_to("intel-rapl:1", RANGE - 1_000_000, "package-1")
    # Parts of what is counted, the same once more, and what is no processor.
    set_to("intel-rapl:0:0", 1, "core")
    set_to("intel-rapl-mmio:0", 5_000_000)
    set_to("intel-rapl:2", 7, "psys")
    (folder / "intel-rapl").mkdir()
    set_to.folder = folder
    return set_to


def test_energy_of_all_processors_is_added_up(counters):
    energy = ProcessorEnergy(counters.folder)
    assert energy.joules() == 0
    counters("intel-rapl:0", 8_000_000)
    # Round once.
    counters("intel-rapl:1", 500_000, "package-1")
    counters("intel-rapl-mmio:0", 8_000_000)
    counters("intel-rapl:2", 10**9, "psys")
    assert energy.joules() == pytest.approx(3 + 1.5)
    counters("intel-rapl:1", 1_500_000, "package-1")
    assert energy.joules() == pytest.approx(3 + 2.5)
    energy.start()
    assert energy.joules() == 0


@pytest.mark.parametrize("content", [None, "much\n"])
def test_nothing_is_said_where_a_counter_is_not_read(counters, content):
    energy = ProcessorEnergy(counters.folder)
    file = counters.folder / "intel-rapl:1" / "energy_uj"
    file.unlink() if content is None else file.write_text(content)
    # Half of it would be taken for the whole.
    assert energy.joules() is None
    assert ProcessorEnergy(counters.folder).joules() is None
    counters("intel-rapl:1", 7, "package-1")
    assert energy.joules() is None


def test_nothing_is_said_where_there_are_no_counters(tmp_path):
    assert ProcessorEnergy(tmp_path / "absent").joules() is None


@pytest.fixture
def told(counters, monkeypatch):
    """Each time that the energy is asked for, it has grown by 36 kJ."""
    taken = iter(range(10**6))

    def read(zone, name):
        return 36_000_000_000 * next(taken)

    shutil.rmtree(counters.folder / "intel-rapl:1")
    monkeypatch.setattr(processor_energy, "_read", read)
    monkeypatch.setattr(
        run_cost, "ProcessorEnergy", lambda: ProcessorEnergy(counters.folder)
    )


@pytest.mark.only_on("tensorflow", reason="training is TensorFlow's")
def test_run_that_goes_on_adds_to_what_it_has_taken(told, quickly, tmp_path):
    first = quickly(tmp_path / "run")["curve"]
    taken = [record["joules"] for record in first]
    assert taken == sorted(taken) and taken[0] > 0
    assert taken[-1] % 36_000 == 0
    later = quickly(tmp_path / "run", "training.steps=8", resume=True)["curve"]
    assert later[: len(first)] == first
    assert later[-1]["joules"] > taken[-1] + 4 * 36_000
    history = json.loads((tmp_path / "run" / "history.json").read_text())
    assert history == later


@pytest.mark.only_on("tensorflow", reason="training is TensorFlow's")
def test_nothing_is_said_where_a_part_of_a_run_is_not_known(
    quick_run, told, quickly, tmp_path
):
    run = shutil.copytree(quick_run, tmp_path / "run")
    history = json.loads((run / "history.json").read_text())
    if "joules" in history[-1]:
        pytest.skip("this machine tells the energy of its processors")
    later = quickly(run, "training.steps=8", resume=True)["curve"]
    assert len(later) > len(history)
    assert "joules" not in later[-1]


@pytest.mark.large
@pytest.mark.only_on("tensorflow", reason="training is TensorFlow's")
def test_results_have_it_in_kilowatt_hours(told, corpus, tmp_path):
    recipe = ra.Recipe.from_mapping(RECIPE).override(QUICK)
    results = ra.train(recipe, tmp_path / "run", corpus)
    history = json.loads((tmp_path / "run" / "history.json").read_text())
    # Each of them a hundredth.
    assert results["cpu_kilowatt_hours"] == history[-1]["joules"] / 3.6e6 > 0
    assert load_results(tmp_path / "run") == results
