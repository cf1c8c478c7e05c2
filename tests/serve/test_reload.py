"""A model that is replaced while it is asked."""

import asyncio
import os
import shutil

import pytest

from relative_attention.serve import load_models
from tests.serve.client import with_async_client
from tests.serve.conftest import SENTENCES
from tests.serve.conftest import save_model

PREDICT = "/v1/models/mine:predict"


async def version(client):
    status = (await client.get("/v1/models/mine")).json()
    return status["model_version_status"][0]["version"]


async def ask(client):
    response = await client.post(PREDICT, json={"inputs": SENTENCES})
    assert response.status_code == 200
    return response.json()["outputs"]["translations"]


@pytest.fixture
def mine(model_folder, tmp_path, monkeypatch):
    """The tiny model, from a folder of its own that may be changed."""
    monkeypatch.setattr("relative_attention.serve.app._RELOAD_SECONDS", 0.02)
    folder = shutil.copytree(model_folder, tmp_path / "mine")
    return load_models({"mine": folder})


@pytest.mark.large
def test_model_replaced_under_load(mine, translator, tmp_path):
    other = save_model(tmp_path / "other", seed=7)
    old, new = (one.translate(SENTENCES) for one in (translator, other))
    assert sum(map(str.__ne__, old, new)) >= 4

    async def scenario(client):
        seen = []

        async def ask_until_new():
            while new not in seen:
                texts = await ask(client)
                # All of one model: a request is never answered by two.
                assert texts in (old, new)
                seen.append(texts)

        asking = [asyncio.create_task(ask_until_new()) for _ in range(4)]
        while len(seen) < 4:
            await asyncio.sleep(0.01)
        os.rename(tmp_path / "mine", tmp_path / "old")
        os.rename(tmp_path / "other", tmp_path / "mine")
        await asyncio.gather(*asking)
        assert old in seen
        assert await version(client) == "2"

    with_async_client(mine, scenario, reload=True)


def test_folder_that_cannot_be_loaded_is_ignored(
    mine, translator, tmp_path, caplog
):
    old, folder = translator.translate(SENTENCES), tmp_path / "mine"

    async def scenario(client):
        (folder / "model.safetensors").write_bytes(b"half a model")
        while "stays version 1" not in caplog.text:
            await asyncio.sleep(0.02)
            assert await ask(client) == old
        shutil.rmtree(folder)
        for _ in range(5):
            await asyncio.sleep(0.02)
            assert await ask(client) == old
        assert await version(client) == "1"
        # It is tried once, not at each look.
        assert caplog.text.count("stays version 1") == 1

    with_async_client(mine, scenario, reload=True)
