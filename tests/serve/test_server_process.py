"""The server as its users start it, told to stop, killed, and abused."""

import concurrent.futures
import contextlib
import io
import json
import re
import signal
import socket
import time
import urllib.error

import numpy as np
import pytest

from tests.integration.readme_blocks import BLOCKS
from tests.serve.client import server_process
from tests.serve.guide import guide_blocks
from tests.serve.malformed import PATHS
from tests.serve.malformed import random_body
from tests.serve.test_concurrent_answers import asked_sentences

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


def stop_under_load(server, translator, rng, num_clients):
    """Stops a server that many ask; each gets a right answer, or none."""
    sentences = asked_sentences(rng, 40 * num_clients)
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


def test_readme_client_then_stopped_under_load(model_folder, translator, rng):
    (block,) = [
        block
        for language, block in BLOCKS
        if language == "python" and "localhost:8501" in block
    ]
    with server_process(model_folder, "--host", "localhost") as server:
        block = block.replace("localhost:8501", f"localhost:{server.port}")
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(block, "README.md", "exec"), {})
        expected = translator.translate(["A man rides a bike."])
        assert output.getvalue() == f"{expected}\n"
        stop_under_load(server, translator, rng, num_clients=4)


@pytest.mark.large
def test_killed_and_started_again(model_folder, translator):
    with server_process(model_folder) as server:
        assert ask_for(server, "dogs") is not None
        port = server.port
        server.stop(signal.SIGKILL)
    with server_process(model_folder, "--port", port) as server:
        assert [ask_for(server, "dogs")] == translator.translate(["dogs"])
        # Whose port is taken says so, at once.
        with pytest.raises(AssertionError, match="Nothing can listen"):
            with server_process(model_folder, "--port", port):
                pass
        assert server.stop(signal.SIGINT)[0] == 130


@pytest.mark.large
def test_stopped_under_the_load_of_many(model_folder, translator, rng):
    with server_process(model_folder, "--max-batch", 16) as server:
        stop_under_load(server, translator, rng, num_clients=32)


@pytest.mark.large
def test_token_on_all_addresses(model_folder, translator, tmp_path):
    token = tmp_path / "token"
    token.write_text("a-token-of-words\n")
    options = ("--host", "0.0.0.0", "--token-file", token)
    with server_process(f"mine={model_folder}", *options) as server:
        server.url = f"http://127.0.0.1:{server.port}/"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            server.ask("v1/models/mine")
        headers = {"Authorization": "Bearer a-token-of-words"}
        assert server.ask("v1/models/mine", headers=headers)
        # The client of the guide reads the token of its folder.
        (block,) = [b for language, b in guide_blocks() if language == "python"]
        block = block.replace("localhost:8501", f"localhost:{server.port}")
        output = io.StringIO()
        with contextlib.chdir(tmp_path), contextlib.redirect_stdout(output):
            exec(compile(block, "serve.md", "exec"), {})
        (expected,) = translator.translate(["A man rides a bike."])
        assert output.getvalue() == f"{expected}\n"


def sent(port, data, then_close=False):
    """What is answered to raw bytes, as far as it comes within a moment."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as raw:
        with contextlib.suppress(OSError):
            raw.sendall(data)
            if then_close:
                raw.shutdown(socket.SHUT_WR)
            return raw.recv(1 << 16)
    return b""


@pytest.mark.large
def test_abused_server_goes_on(model_folder, translator):
    """Bytes that are no HTTP, slow clients, connections half open."""
    rng = np.random.default_rng(5)
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
    with (
        server_process(model_folder, "--queue", 16) as server,
        contextlib.ExitStack() as stack,
    ):
        # These never say more than that, or never read what they are told.
        for start in (
            b"",
            b"G",
            b"POST / HTTP/1.1\r\nHost: x",
            head % (b"/", 9),
        ):
            for _ in range(20):
                slow = socket.create_connection(("127.0.0.1", server.port))
                stack.callback(slow.close)
                slow.sendall(start)
        statuses = set()
        for number in range(5000):
            body = random_body(rng)
            path = PATHS[rng.integers(len(PATHS))].encode()
            kind = number % 5
            if kind == 0:
                data = rng.bytes(int(rng.integers(1, 400))) + b"\r\n\r\n"
            elif kind == 1:
                # Fewer bytes than announced, and then nothing.
                data = head % (path, len(body) + 5) + body
            elif kind == 2:
                data = head % (path, 10**12) + body
            else:
                data = head % (path, len(body)) + body
            answer = sent(server.port, data, then_close=kind == 1)
            status = re.match(rb"HTTP/1.1 (\d+)", answer)
            statuses.add(int(status[1]) if status else None)
            if number % 500 == 0:
                assert (
                    ask_for(server, "dogs")
                    == (translator.translate(["dogs"])[0])
                )
        assert {200, 400, 404, 413} <= statuses
        assert not [s for s in statuses if s is not None and s >= 500]
        assert ask_for(server, "dogs") == translator.translate(["dogs"])[0]
        assert server.ask("healthz") == {"status": "ok"}


@pytest.mark.large
def test_half_a_head_is_not_waited_for_for_ever(model_folder):
    with server_process(model_folder) as server:
        for start in (b"", b"GET /healthz HTTP/1.1\r\nHost:"):
            with socket.create_connection(
                ("127.0.0.1", server.port), timeout=60
            ) as slow:
                slow.sendall(start)
                # Closed by the server, not by the limit of this test.
                with contextlib.suppress(ConnectionResetError):
                    assert slow.recv(1) == b""


@pytest.mark.large
def test_who_hangs_up_frees_the_place(model_folder):
    body = json.dumps({"inputs": ["a man rides"] * 128}).encode()
    head = (
        f"POST /{PREDICT} HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()
    with server_process(model_folder, "--queue", 3) as server:
        for _ in range(40):
            raw = socket.create_connection(("127.0.0.1", server.port))
            raw.sendall(head + body)
            raw.close()
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                answer = server.ask(PREDICT, {"inputs": ["dogs"]})
                break
            except urllib.error.HTTPError as error:
                assert error.code == 429
                time.sleep(0.05)
        assert len(answer["outputs"]["translations"]) == 1
        with urllib.request.urlopen(f"{server.url}metrics") as response:
            text = response.read().decode()
        assert "translator_waiting_requests 0.0" in text
