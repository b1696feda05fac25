"""Raises exceptions: as many as the line of the input says, of each kind and in each place.

Without a number it raises as many as it can for two seconds, doing something else in between, and prints how many, and
the CPU time of a thousand turns.
"""

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


def work():
    total = 0
    for number in range(600):
        total += number
    return total


def raise_fast():
    turns = 0
    started = time.time()
    cpu = os.times()[0]
    while time.time() < started + 2:
        for _ in range(1000):
            work()
            catch(raise_value)
            turns += 1
            if turns % 10 == 0:
                catch(raise_own, 3)
    return turns, os.times()[0] - cpu


def main():
    truth.ready()
    while True:
        line = sys.stdin.readline()
        if not line:
            return
        words = line.split()
        if words[0] == "fast":
            turns, cpu = raise_fast()
            print("%d %f" % (turns, cpu))
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
