"""Results as plain data for JSON, and for pydantic, by which FastAPI returns them."""

from __future__ import annotations

from typing import Any, ClassVar


class PlainData:
    """What has a form of plain data: `_plain` gives it, and `_plain_type` is its type."""

    __slots__ = ()

    _plain_type: ClassVar[Any]

    def _plain(self) -> Any:
        raise NotImplementedError

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, handler: Any) -> Any:
        """Fields and return types of this class take an instance, and are written as its plain data."""
        from pydantic_core import core_schema

        written = core_schema.plain_serializer_function_ser_schema(
            lambda result: result._plain(), return_schema=handler.generate_schema(cls._plain_type)
        )
        return core_schema.is_instance_schema(cls, serialization=written)
