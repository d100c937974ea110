import { serviceUnitsError } from '../../../errors/daemon.ts';

/**
 * A word of a command line in a unit (systemd.syntax(7), systemd.service(5)): quoted where it must be, with `%` and `$`
 * doubled, which systemd would replace.
 *
 * @throws service-units-path for a word with a control character: a new line would begin a directive
 */
export function quoted(word: string): string {
  return inQuotes(literal(word).replaceAll('$', '$$$$'));
}

/**
 * A path as the value of a directive that takes paths (`ReadWritePaths=`): systemd replaces `%` in it, and takes `$` as
 * it stands.
 *
 * @throws service-units-path
 */
export function quotedPath(file: string): string {
  return inQuotes(literal(file));
}

function literal(word: string): string {
  if (/\p{Cc}/u.test(word)) throw serviceUnitsError('service-units-path', { path: word });
  return word.replaceAll('%', '%%');
}

function inQuotes(literal: string): string {
  if (/^[\w@%+=:,./$-]+$/.test(literal)) return literal;
  return `"${literal.replace(/["\\]/g, '\\$&')}"`;
}
