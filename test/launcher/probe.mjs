/** Stands where the program's modules are, and does what its first argument says. */
import { spawnSync } from 'node:child_process';
import { readlinkSync } from 'node:fs';
import { text } from 'node:stream/consumers';

const [, file, command, ...args] = process.argv;
const print = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
/** Counts what comes, and ends a while after SIGTERM or an interrupt, when a second one would have come too. */
const listen = () => {
  const came = { SIGINT: 0, SIGTERM: 0, SIGHUP: 0, SIGUSR2: 0 };
  for (const signal of Object.keys(came)) {
    process.on(signal, () => {
      came[signal] += 1;
      if (signal === 'SIGHUP' || signal === 'SIGUSR2') return print({ heard: signal });
      setTimeout(() => {
        print(came);
        process.exit(42);
      }, 500);
    });
  }
};
const commands = {
  echo: async () =>
    print({ args, file, execPath: process.execPath, stdin: await text(process.stdin) }),
  exit: () => process.exit(Number(args[0])),
  die: () => process.kill(process.pid, args[0]),
  wait: () => {
    listen();
    setInterval(() => {}, 1000);
    print({ pid: process.pid });
  },
  busy: () => {
    setTimeout(() => {
      print({ pid: process.pid });
      // Written at once: standard output is a pipe.
      for (;;);
    }, Number(args[0]));
  },
  descriptors: () => {
    const { stdout } = spawnSync('ls', ['-l', '/proc/self/fd'], { encoding: 'utf8' });
    print({ pipe: readlinkSync('/proc/self/fd/3'), child: stdout });
  },
};

await commands[command]();
