"""Uses one processor."""


def main():
    while True: pass


print("ready", flush=True)
main()
