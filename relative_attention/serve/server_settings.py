"""What a server is told when it starts."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class ServerSettings:
    """How a server batches, what it takes, and whom it lets in.

    Attributes:
        max_batch: int. Most sentences that are translated at a time.
        max_wait_ms: float. How long after a batch of several requests the
            model waits for as many to come again, for a tenth of the time of
            that batch at most. A request that finds the model at rest never
            waits.
        queue: int. Most requests that wait; a further one is answered 429.
        max_bytes: int. Most bytes of a request's body.
        max_sentences: int. Most sentences of a request.
        max_tokens: int. Most tokens of a request, over all its sentences.
        token: string that a request must bring, or `None`, nothing.
        checks_host: bool. Whether requests must, where there is no token,
            call the server by an address or as `localhost`, which those of a
            page of another name, made to point at this machine, do not.
        reload: bool. Whether a model whose folder changes is loaded anew.
        reload_seconds: float. How often the folders are looked at.
        read_seconds: float. How long a client may take to send a request.
    """

    max_batch: int = 64
    max_wait_ms: float = 50.0
    queue: int = 256
    max_bytes: int = 2**18
    max_sentences: int = 128
    max_tokens: int = 8192
    token: str | None = None
    checks_host: bool = True
    reload: bool = False
    reload_seconds: float = 1.0
    read_seconds: float = 20.0
