"""What stands for a module that was mocked out; a package takes this file along, so it imports nothing."""

_USES = """
abs add aenter aexit aiter and anext await bool bytes call ceil complex contains copy deepcopy delattr delitem
dir divmod enter eq exit float floor floordiv ge getattr getitem getstate gt hash iadd iand ifloordiv ilshift
imatmul imod imul index instancecheck int invert ior ipow irshift isub iter itruediv ixor le len lshift lt
matmul mod mul ne neg next or pos pow radd rand rdivmod reduce reversed rfloordiv rlshift rmatmul rmod rmul
ror round rpow rrshift rshift rsub rtruediv rxor setattr setitem sizeof sub subclasscheck truediv trunc xor
"""


class MockedObject:
    """A name of a mocked module: it can be imported, but every use of it fails."""

    _name = "<unknown>"

    def __new__(cls, *args: object, **kwargs: object) -> "MockedObject":
        """Make one for a module's ``__getattr__``; everybody else, such as an unpickler, gets the error."""
        if not kwargs.get("_suppress_err"):
            raise NotImplementedError(
                f"Object '{cls._name}' was mocked out during packaging but it is being used in '__new__'. If this "
                "error is happening during 'load_pickle', please ensure that your pickled object doesn't contain any "
                "mocked objects."
            )
        return super().__new__(cls)

    def __init__(self, name: str, _suppress_err: bool) -> None:
        self.__dict__["_name"] = name

    def __repr__(self) -> str:
        return f"MockedObject({self._name})"


def _refusing(use: str) -> object:
    def refuse(self: MockedObject, *args: object, **kwargs: object) -> object:
        raise NotImplementedError(
            f"Object '{self._name}' was mocked out during packaging but it is being used in {use}"
        )

    return refuse


for _use in _USES.split():
    setattr(MockedObject, f"__{_use}__", _refusing(f"__{_use}__"))
