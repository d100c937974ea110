import { lettersOf } from '../mailfiles/maildir-names.ts';
import type { NamedMessage } from './names.ts';

/**
 * The name of a message in `cur/`: received second, something of its own, size (as Dovecot and Courier read it) and
 * flags. Windows allows no colon in names; there readers look for `;`.
 */
export function maildirFileName(
  message: NamedMessage & { readonly size: number; readonly flags: readonly string[] },
  infoMark: ':' | ';',
): string {
  const { id, generation, uid, date, size, flags } = message;
  const seconds = date === null ? 0 : Math.max(0, Math.floor(Date.parse(date) / 1000));
  const own = `${id.slice(0, 16)}U${uid}G${generation}`;
  return `${seconds}.${own}.mailkeep,S=${size}${infoMark}2,${lettersOf(flags)}`;
}
