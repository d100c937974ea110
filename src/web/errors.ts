import { defineErrors, reasonText } from '../core/errors.ts';

export const webError = defineErrors({
  origin: {
    'web-not-running': ({ dataDir }: { dataDir: string }) => [
      `No web interface of ${dataDir} is running.`,
      'Start one with "mailkeep web", which prints a sign-in link, or add "web": {} to the configuration of the daemon and restart it.',
    ],
    'token-unknown': ({ token }: { token: string }) => [
      `There is no token "${token}".`,
      '"mailkeep token list" shows the tokens with their ids and names.',
    ],
  },
  config: {
    'web-not-loopback': ({ host }: { host: string }) => [
      `The web interface does not listen on ${host}, which other machines can reach, without HTTPS in front of it.`,
      'Listen on 127.0.0.1, or name the https address of your reverse proxy as web.publicUrl in the configuration.',
    ],
    'web-cannot-listen': (f: { host: string; port: number; reason: string }) => [
      `The web interface cannot listen on ${f.host}:${f.port}: ${f.reason === 'EADDRINUSE' ? 'the port is taken (EADDRINUSE)' : reasonText(f.reason)}.`,
      'Choose another address with --listen; port 0 selects a free one.',
    ],
  },
  disk: {
    'token-unwritable': ({ dataDir }: { dataDir: string }) => [
      `Tokens cannot be stored in ${dataDir}: state.sqlite cannot be written.`,
      'Check the permissions of the folder, and whether the disk is full or mounted read-only.',
    ],
  },
});
