import type { Warning } from './notices.ts';

/**
 * Returns the warning that a damaged state was put aside. It is no damage of the archive: what the state remembers is
 * learned again. Known damage and saved searches went with it, and must not be forgotten unseen.
 *
 * @param file where it went
 */
export function stateAsideWarning(file: string): Warning {
  return {
    code: 'state-put-aside',
    message: `the state could not be read and was put aside as ${file}. A new one was begun; the archive is not affected.`,
    hint: 'Damage that verifications had found is known only there: "mailkeep verify" finds it again. So are saved searches.',
  };
}
