"""The server as its users start it, told to stop, killed, and abused."""

import concurrent.futures
import contextlib
import http.client
import io
import json
import re
import signal
import socket
import subprocess
import time
import urllib.error

import pytest

from tests.integration.readme_blocks import BLOCKS
from tests.serve.client import server_process
from tests.serve.test_models_and_options import GUIDE
from tests.serve.test_predict import random_sentences

PREDICT = "v1/models/mine:predict"


def ask_for(server, sentence):
    """The translation, or `None` where nobody listens any more."""
    try:
        answer = server.ask(PREDICT, {"inputs": [sentence]})
    except urllib.error.HTTPError as error:
        raise AssertionError(error.read()) from error
    except OSError:
        return None
    return answer["outputs"]["translations"][0]


def output_of(block, port):
    """What a client of a guide prints, of a server at another port."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        block = block.replace("localhost:8501", f"localhost:{port}")
        exec(compile(block, "guide", "exec"), {})
    return output.getvalue()


def stop_under_load(server, translator, rng, num_clients):
    """Stops a server that many ask; each gets a right answer, or none."""
    sentences = random_sentences(rng, 40 * num_clients)
    expected = dict(zip(sentences, translator.translate(sentences)))
    answered = []

    def client(own):
        for sentence in own:
            text = ask_for(server, sentence)
            if text is None:
                return
            assert text == expected[sentence]
            answered.append(sentence)

    with concurrent.futures.ThreadPoolExecutor(num_clients) as pool:
        tasks = [
            pool.submit(client, sentences[number::num_clients])
            for number in range(num_clients)
        ]
        end = time.monotonic() + 60
        while len(answered) < num_clients and time.monotonic() < end:
            time.sleep(0.01)
        status, error = server.stop(signal.SIGTERM)
        for task in tasks:
            task.result()
    assert answered
    assert (status, error) == (0, "")


@pytest.mark.large
def test_client_of_the_guide_then_413_then_stopped_under_load(
    model_folder, translator, rng
):
    (block,) = [
        block
        for language, block in BLOCKS
        if language == "python" and "localhost:8501" in block
    ]
    with server_process(model_folder, "--host", "localhost") as server:
        expected = translator.translate(["A man rides a bike."])
        assert output_of(block, server.port) == f"{expected}\n"
        # A client that sends all before it reads, more than buffers hold.
        connection = http.client.HTTPConnection("localhost", server.port)
        connection.request("POST", f"/{PREDICT}", bytes(2**25))
        response = connection.getresponse()
        assert response.status == 413
        assert "at most 262144 bytes" in json.load(response)["error"]
        connection.close()
        stop_under_load(server, translator, rng, num_clients=4)


@pytest.mark.large
def test_token_on_all_addresses(model_folder, translator, tmp_path):
    token = tmp_path / "token"
    token.write_text("a-token-of-words\n")
    options = ("--host", "0.0.0.0", "--token-file", token)
    with server_process(f"mine={model_folder}", *options) as server:
        server.url = f"http://127.0.0.1:{server.port}/"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            server.ask("v1/models/mine")
        # The client of the guide reads the token of its folder.
        pattern = r"^    (curl -H .*?:predict)$"
        (command,) = re.findall(pattern, GUIDE, re.MULTILINE | re.DOTALL)
        done = subprocess.run(
            command.replace(":8501", f":{server.port}"),
            shell=True,
            cwd=tmp_path,
            capture_output=True,
            check=True,
        )
        (answer,) = json.loads(done.stdout)["predictions"]
        expected = translator.translate(["I like tea."])
        assert [answer["translations"]] == expected


@pytest.mark.large
def test_closed_connection_frees_its_place(model_folder):
    body = json.dumps({"inputs": ["a man rides " * 12] * 128}).encode()
    head = (
        f"POST /{PREDICT} HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()
    with server_process(model_folder, "--queue", 6) as server:
        for _ in range(40):
            raw = socket.create_connection(("127.0.0.1", server.port))
            raw.sendall(head + body)
            raw.close()
        end = time.monotonic() + 60
        answer = None
        while answer is None and time.monotonic() < end:
            try:
                answer = server.ask(PREDICT, {"inputs": ["dogs"]})
            except urllib.error.HTTPError as error:
                assert error.code == 429
                time.sleep(0.05)
        assert len(answer["outputs"]["translations"]) == 1
