"""A model that is replaced while it is asked."""

import asyncio
import dataclasses
import os
import shutil

import pytest

from relative_attention.serve import ServerSettings
from relative_attention.serve import make_app
from relative_attention.serve.served_models import fingerprint
from tests.serve.conftest import SENTENCES
from tests.serve.conftest import save_model

PREDICT = "/v1/models/mine:predict"
LIMIT = 120


def replace(folder, other):
    """Puts another folder in the place of one, as whoever deploys does."""
    os.rename(folder, folder.with_name("old"))
    os.rename(other, folder)


async def version(client):
    status = (await client.get("/v1/models/mine")).json()
    return status["model_version_status"][0]["version"]


@pytest.fixture
def mine(models, model_folder, tmp_path):
    """The tiny model, in a folder of its own that may be changed."""
    folder = tmp_path / "mine"
    shutil.copytree(model_folder, folder)
    return dataclasses.replace(
        models["mine"], folder=folder, fingerprint=fingerprint(folder)
    )


def with_client(model, scenario):
    import httpx2

    async def run():
        app = make_app(
            {model.name: model},
            ServerSettings(reload=True, reload_seconds=0.02),
        )
        async with (
            asyncio.timeout(LIMIT),
            app.router.lifespan_context(app),
            httpx2.AsyncClient(
                transport=httpx2.ASGITransport(app),
                base_url="http://localhost",
                timeout=LIMIT,
            ) as client,
        ):
            await scenario(client)

    asyncio.run(run())


def test_model_replaced_under_load(mine, tmp_path, monkeypatch):
    # Which would take most of the time of this test.
    monkeypatch.setattr(
        "relative_attention.serve.served_models._warm_up", lambda _: None
    )
    other = save_model(tmp_path / "other", seed=7)
    old, new = mine.translator.translate(SENTENCES), other.translate(SENTENCES)
    assert sum(map(str.__ne__, old, new)) >= 4

    async def scenario(client):
        seen = []

        async def ask():
            """Asks again and again until the new model has answered."""
            while new not in seen:
                response = await client.post(
                    PREDICT, json={"inputs": SENTENCES}
                )
                assert response.status_code == 200
                texts = response.json()["outputs"]["translations"]
                # All of one model: a request is never answered by two.
                assert texts in (old, new)
                seen.append(texts)

        asking = [asyncio.create_task(ask()) for _ in range(4)]
        while len(seen) < 4:
            await asyncio.sleep(0.01)
        replace(mine.folder, tmp_path / "other")
        await asyncio.gather(*asking)
        assert old in seen
        assert await version(client) == "2"
        # What was asked for by its version is gone.
        response = await client.get("/v1/models/mine/versions/1")
        assert response.status_code == 404

    with_client(mine, scenario)


def test_folder_that_cannot_be_loaded_changes_nothing(mine, caplog):
    old = mine.translator.translate(SENTENCES)

    async def scenario(client):
        (mine.folder / "model.safetensors").write_bytes(b"half a model")
        while "stays version 1" not in caplog.text:
            await asyncio.sleep(0.02)
            response = await client.post(PREDICT, json={"inputs": SENTENCES})
            assert response.json()["outputs"]["translations"] == old
        shutil.rmtree(mine.folder)
        for _ in range(5):
            await asyncio.sleep(0.02)
            response = await client.post(PREDICT, json={"inputs": SENTENCES})
            assert response.json()["outputs"]["translations"] == old
        assert await version(client) == "1"
        # It is tried once, not at each look.
        assert caplog.text.count("stays version 1") == 1

    with_client(mine, scenario)


def test_disk_that_is_away_for_a_moment_does_not_end_the_watch(
    mine, tmp_path, monkeypatch
):
    looks = []

    def away_twice(folder):
        looks.append(folder)
        if len(looks) < 3:
            raise OSError("stale file handle")
        return fingerprint(folder)

    monkeypatch.setattr(
        "relative_attention.serve.reload_models.fingerprint", away_twice
    )
    monkeypatch.setattr(
        "relative_attention.serve.served_models._warm_up", lambda _: None
    )
    save_model(tmp_path / "other", seed=7)
    replace(mine.folder, tmp_path / "other")

    async def scenario(client):
        while await version(client) != "2":
            await asyncio.sleep(0.02)

    with_client(mine, scenario)


@pytest.mark.large
def test_model_replaced_many_times_under_load(mine, tmp_path):
    made = [tmp_path / f"made_{seed}" for seed in (3, 7)]
    expected = [mine.translator.translate(SENTENCES)] + [
        save_model(folder, seed).translate(SENTENCES)
        for folder, seed in zip(made, (3, 7))
    ]

    async def scenario(client):
        seen, is_over = [], False

        async def ask():
            while not is_over:
                response = await client.post(
                    PREDICT, json={"inputs": SENTENCES}
                )
                texts = response.json()["outputs"]["translations"]
                assert texts in expected
                seen.append(texts)

        asking = [asyncio.create_task(ask()) for _ in range(8)]
        for turn in range(6):
            other = tmp_path / "next"
            shutil.copytree(made[turn % 2], other)
            replace(mine.folder, other)
            shutil.rmtree(mine.folder.with_name("old"))
            while await version(client) != str(turn + 2):
                await asyncio.sleep(0.02)
        is_over = True
        await asyncio.gather(*asking)
        assert all(texts in seen for texts in expected)

    with_client(mine, scenario)
