import { defineErrors, reasonText, say } from '../core/errors.ts';

/** An error of the local service's set-up. Exit code 2, but for `sandbox-source-changed`, which is a fault of one request. */
export const serviceError = defineErrors({
  usage: {
    /** A path given as a seed cannot be read. */
    'sandbox-seed-unreadable': ({ path, reason }: { path: string; reason: string }) =>
      say(`${path} cannot be loaded: ${reasonText(reason)}.`),
    /** A file that was loaded as a message is no longer what it was when it was loaded. */
    'sandbox-source-changed': ({ path }: { path: string }) =>
      say(`${path} was changed after the sandbox loaded it.`, 'Start the sandbox again.'),
    /** The port is taken, or may not be listened on. */
    'sandbox-cannot-listen': (f: { host: string; port: number; reason: string }) =>
      say(
        `The sandbox cannot listen on ${f.host}:${f.port}: ${f.reason === 'EADDRINUSE' ? 'the port is taken (EADDRINUSE)' : reasonText(f.reason)}.`,
        'Choose another port with --port N, or any free one with --port 0.',
      ),
    /** The state file is no state of this service, or of another version of it. */
    'sandbox-state-unusable': ({ file, reason }: { file: string; reason: string }) =>
      say(
        `${file} is not a state file of this sandbox (${reason}).`,
        'Name another file with --state, or remove that one.',
      ),
  },
});

const afterLog = (log: string): string => (log === '' ? '' : ` Its log ends with:\n${log}`);

/** An error of the demo: nothing of the user's own is concerned. */
export const demoError = defineErrors({
  config: {
    /** `packages` are Debian's. */
    'demo-programs-missing': (f: { programs: readonly string[]; packages: readonly string[] }) =>
      say(
        `The demo starts PostgreSQL and RadosGW, of which these programs cannot be found: ${f.programs.join(', ')}.`,
        `On Debian: apt-get install ${f.packages.join(' ')}`,
      ),
    /** PostgreSQL does not run as root, and its package's user is missing. */
    'demo-no-owner': ({ user }: { user: string }) =>
      say(
        `PostgreSQL does not run as root, and there is no user ${user} on this machine.`,
        'Run the demo as another user.',
      ),
  },
  disk: {
    /** `log`: the last that it wrote. */
    'demo-server-ended': ({ program, log }: { program: string; log: string }) =>
      say(`${program} ended before its time.${afterLog(log)}`),
    'demo-server-late': ({ program, log }: { program: string; log: string }) =>
      say(`${program} was not ready within a minute.${afterLog(log)}`),
  },
});
