"""Raises exceptions: as many as the line of the input says, of each kind and in each place.

Told to import, it imports modules and names that do not exist, as often, in three ways.

Told to be fast, it raises for two seconds, doing something else in between, and prints how many turns that were, their
CPU time, and that of as many turns without exceptions between them.
"""

import importlib
import os
import sys
import threading
import time

import truth


class OutOfStock(Exception):
    pass


def raise_value():
    raise ValueError("as in a parser")


def raise_own(depth):
    if depth:
        raise_own(depth - 1)
    else:
        raise OutOfStock()


def look_up():
    return {}["nothing"]


def convert():
    return int("nothing")


def raise_again():
    # One that passes through more frames, and is raised again, is raised once.
    try:
        raise_index()
    except IndexError:
        raise


def raise_index():
    return [][0]


def raise_unseen():
    # Caught by C code: it leaves no frame.
    return getattr(object(), "nothing", None)


def end_iteration():
    return next(iter(()))


def catch(function, *arguments):
    try:
        function(*arguments)
    except Exception:
        pass


def raise_all(count):
    for _ in range(count):
        catch(raise_value)
        catch(raise_own, 20)
        catch(look_up)
        catch(convert)
        catch(raise_again)
        catch(raise_unseen)
        catch(end_iteration)


def import_missing():
    import no_such_module


def import_missing_name():
    from json import no_such_name


def import_by_name():
    importlib.import_module("no_such_module")


def work():
    total = 0
    for number in range(600):
        total += number
    return total


def raise_fast():
    turns = 0
    seconds = [0.0, 0.0]
    started = time.time()
    while time.time() < started + 2:
        # A millisecond of each, so that both have the same part of what changes the speed of the machine.
        for is_raising in (False, True):
            before = time.process_time()
            for turn in range(50):
                work()
                if is_raising:
                    catch(raise_value)
                    if turn % 10 == 0:
                        catch(raise_own, 3)
            seconds[is_raising] += time.process_time() - before
        turns += 50
    return turns, seconds[True], seconds[False]


def main():
    truth.ready()
    while True:
        line = sys.stdin.readline()
        if not line:
            return
        words = line.split()
        if words[0] == "fast":
            print("%d %f %f" % raise_fast())
        elif words[0] == "import":
            for _ in range(int(words[1])):
                catch(import_missing)
                catch(import_missing_name)
                catch(import_by_name)
            print("done")
        elif words[0] == "fork":
            child = os.fork()
            if child == 0:
                raise_all(int(words[1]))
                os._exit(0)
            os.waitpid(child, 0)
            print("done")
        elif words[0] == "threads":
            threads = [
                threading.Thread(target=raise_all, args=(int(words[2]),))
                for _ in range(int(words[1]))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            print("done")
        else:
            raise_all(int(words[0]))
            print("done")
        sys.stdout.flush()


main()
