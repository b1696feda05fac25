"""Generators that delegate, and coroutines, which Python 2 cannot even read."""


def delegated(generator, argument):
    yield from generator(argument)  # line: from


async def inner(function, argument):
    return function(argument)  # line: called


async def outer(function, argument):
    return await inner(function, argument)  # line: await
