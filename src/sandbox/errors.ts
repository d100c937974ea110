import { defineErrors, reasonText } from '../core/errors.ts';

/** Errors while setting up the sandbox; exit code 2. `sandbox-source-changed` affects only one request. */
export const serviceError = defineErrors({
  usage: {
    'sandbox-seed-unreadable': ({ path, reason }: { path: string; reason: string }) =>
      `${path} cannot be loaded: ${reasonText(reason)}.`,
    'sandbox-source-changed': ({ path }: { path: string }) => [
      `${path} was changed after the sandbox loaded it.`,
      'Start the sandbox again.',
    ],
    'sandbox-cannot-listen': (f: { host: string; port: number; reason: string }) => [
      `The sandbox cannot listen on ${f.host}:${f.port}: ${f.reason === 'EADDRINUSE' ? 'the port is taken (EADDRINUSE)' : reasonText(f.reason)}.`,
      'Choose another port with --port N, or any free one with --port 0.',
    ],
    'sandbox-state-unusable': ({ file, reason }: { file: string; reason: string }) => [
      `${file} is not a state file of this sandbox (${reason}).`,
      'Name another file with --state, or remove that one.',
    ],
  },
});

const afterLog = (log: string): string => (log === '' ? '' : ` Its log ends with:\n${log}`);

export const demoError = defineErrors({
  config: {
    'demo-programs-missing': (f: { programs: readonly string[]; packages: readonly string[] }) => [
      `The demo starts PostgreSQL and RadosGW, of which these programs cannot be found: ${f.programs.join(', ')}.`,
      `On Debian: apt-get install ${f.packages.join(' ')}`,
    ],
    'demo-no-owner': ({ user }: { user: string }) => [
      `PostgreSQL does not run as root, and there is no user ${user} on this machine.`,
      'Run the demo as another user.',
    ],
  },
  disk: {
    'demo-server-ended': ({ program, log }: { program: string; log: string }) =>
      `${program} ended before its time.${afterLog(log)}`,
    'demo-server-late': ({ program, log }: { program: string; log: string }) =>
      `${program} was not ready within a minute.${afterLog(log)}`,
  },
});
