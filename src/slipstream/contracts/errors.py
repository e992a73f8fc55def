"""The one exception tree. Messages say what happened and what to do next.

SlipstreamError
├── Refusal              nothing ran: the caller, or the moment, is wrong
│   ├── InvalidRequest       a field or value; `param` names it
│   │   └── ContextExceeded      the prompt does not fit, with the numbers
│   ├── Unauthorized         no key, or a wrong one
│   ├── NotFound             a route, model, adapter or response that is not here
│   ├── WrongMethod          the route exists, the method does not
│   ├── TooLarge             the body is over the limit
│   ├── WrongMedia           the body is not JSON
│   ├── QueueFull            as many wait as may wait; try later
│   └── Unavailable          loading, draining or out of memory; try later
├── Fault                something of ours failed
│   ├── RowFault             one part of one row; the others go on
│   ├── OverBudget           a row that not even an empty device could hold
│   └── ForwardFault         a forward failed; its rows are retried one by one
├── Cancelled            the session was ended from outside, with a CancelReason
│   ├── ByOperator           somebody who may has ended it; once more will not help
│   └── OutOfTime            it ran for its time and was not done; once more will not help
├── ModelError           a model folder that cannot be found, read or run
└── UsageError           a wrong flag or argument
"""

from __future__ import annotations


class SlipstreamError(Exception):
    """Root of the tree. `str(error)` is fit to be shown to a user."""

    code: str | None = None

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        if code is not None:
            self.code = code


class Refusal(SlipstreamError):
    """The request was not started. `retry_after` (seconds) is set where a retry can help."""

    retry_after: int | None = None


class InvalidRequest(Refusal):
    code = "invalid_value"


class ContextExceeded(InvalidRequest):
    code = "context_length_exceeded"

    def __init__(
        self,
        tokens: int,
        context: int,
        *,
        param: str,
        at_least: bool = False,
        by_memory: bool = False,
    ) -> None:
        """`at_least`: there are more than `tokens`, and nobody counted how many. `by_memory`: the
        model could read more, but the memory for rows holds no more."""
        what = "the memory for rows here holds" if by_memory else "this model's context is"
        super().__init__(
            f"The prompt has {'at least ' if at_least else ''}{tokens} tokens, "
            f"but {what} {context} tokens. "
            f"Shorten it by at least {tokens - context + 1} tokens"
            f"{', or raise --kv-budget or --memory-budget' if by_memory else ''}.",
            param=param,
        )
        self.tokens = tokens
        self.context = context


class Unauthorized(Refusal):
    code = "invalid_api_key"


class NotFound(Refusal):
    code = "not_found"


class WrongMethod(Refusal):
    code = "method_not_allowed"


class TooLarge(Refusal):
    code = "body_too_large"


class WrongMedia(Refusal):
    code = "unsupported_media_type"


class QueueFull(Refusal):
    code = "queue_full"
    retry_after = 1


class Unavailable(Refusal):
    code = "unavailable"
    retry_after = 2


class Fault(SlipstreamError):
    code = "internal_error"


class RowFault(Fault):
    """One part of one row failed; `part` names it (sampler, sink, matcher, prefill, step)."""

    code = "row_fault"

    def __init__(self, part: str, cause: BaseException | str) -> None:
        super().__init__(f"The {part} of this request failed: {cause}. Other requests go on.")
        self.part = part


class OverBudget(Fault):
    """Found only where rows are admitted, but the request's own: once more will not help."""

    code = "context_length_exceeded"


class ForwardFault(Fault):
    """A forward over several rows failed; who is guilty is not known yet."""

    code = "forward_fault"


class Cancelled(SlipstreamError):
    code = "cancelled"

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ByOperator(Cancelled):
    code = "ended_by_operator"


class OutOfTime(Cancelled):
    code = "deadline_exceeded"


class ModelError(SlipstreamError):
    code = "model_error"


class UsageError(SlipstreamError):
    code = "usage"
