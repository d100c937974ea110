import type { DemoFacts } from '../errors/demo.ts';
import { type Sentences, say } from './sentence.ts';

const afterLog = (log: string): string => (log === '' ? '' : ` Its log ends with:\n${log}`);

export const DEMO_SENTENCES: Sentences<DemoFacts> = {
  'demo-programs-missing': ({ programs, packages }) =>
    say(
      `The demo starts PostgreSQL and RadosGW, of which these programs cannot be found: ${programs.join(', ')}.`,
      `On Debian: apt-get install ${packages.join(' ')}`,
    ),
  'demo-no-owner': ({ user }) =>
    say(
      `PostgreSQL does not run as root, and there is no user ${user} on this machine.`,
      'Run the demo as another user.',
    ),
  'demo-server-ended': ({ program, log }) =>
    say(`${program} ended before its time.${afterLog(log)}`),
  'demo-server-late': ({ program, log }) =>
    say(`${program} was not ready within a minute.${afterLog(log)}`),
};
