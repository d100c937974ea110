import type { EngineContext, EngineEvent, Remembered } from '../catalog/open-reader.ts';
import type { ConfigWarning } from '../core/config.ts';
import { sentenceOf } from '../core/errors.ts';
import { terminalLine } from '../core/terminal-safe.ts';
import { bytes, counted } from '../core/text.ts';
import { findingText } from './finding-text.ts';
import type { Notices, Warning } from './warnings.ts';

/** The words of this front end for what the engine keeps as text. */
export const WORDS: EngineContext['words'] = {
  finding: findingText,
  error: (error) => sentenceOf(error).message,
};

const REMEMBERED: Readonly<Record<Remembered, string>> = {
  result: 'the result',
  damage: 'the damage',
  sample: 'how far the sample came',
  segments: 'when each segment was verified',
  run: 'the run',
  copy: 'the state of the copy',
};

const HOLDS: Readonly<Record<NonNullable<ConfigWarning['holds']> | 'token', string>> = {
  token: 'a token',
  'fleet-keys': 'the keys of the fleet',
  'registry-password': 'the password of the registry',
};

/** Returns a listener that prints what the engine reports on standard error. */
export function reportTo(notices: Notices): (event: EngineEvent) => void {
  return (event) => {
    switch (event.event) {
      case 'config-located':
        return notices.detail(`configuration: ${terminalLine(event.file)}`);
      case 'config-warning':
        return notices.warn(warningText(event.warning));
      case 'archive-located':
        return notices.detail(`archive: ${terminalLine(event.dataDir)}`);
      case 'catalog-behind': {
        const { dataDir, reached, last } = event;
        return notices.alert({
          code: 'catalog-behind',
          message: `the catalog is behind the log (commit ${reached} of ${last}), and newer mail is not found.`,
          hint: `"mailkeep rebuild --data ${terminalLine(dataDir)}" brings it up to date; so does the next sync.`,
        });
      }
      case 'catalog-caught-up':
        return notices.say(`The catalog caught up ${counted(event.commits, 'commit')}.`);
      case 'tail-put-aside':
        return notices.warn(
          `the last run was interrupted: ${bytes(event.bytes)} after the last commit were moved to ${event.file}`,
        );
      case 'state-put-aside':
        return notices.alert(stateAsideWarning(event.file));
      case 'state-not-written':
        return notices.warn(
          `${REMEMBERED[event.what]} could not be remembered. ${sentenceOf(event.error).message}`,
        );
      case 'purging':
        return notices.say(`Removing ${counted(event.messages, 'message')} from the log.`);
      case 'rebuilding-catalog':
        return notices.say(
          {
            purge: 'Rebuilding the catalog to remove the words from its index.',
            repair: 'Rebuilding the catalog.',
            version: 'Rebuilding the catalog: an earlier version of mailkeep wrote it.',
          }[event.because],
        );
      case 'not-fetched': {
        const { folder, uid } = event.place;
        return notices.warn(
          `${terminalLine(folder)} uid ${uid}: ${sentenceOf(event.error).message}`,
        );
      }
    }
  };
}

/** Returns a warning about the configuration, in words. */
export function warningText({ file, holds, mode }: ConfigWarning): string {
  return `${file} holds ${HOLDS[holds ?? 'token']} and can be read by others (mode ${mode}): chmod 600 ${file}`;
}

/**
 * A state that was put aside is no damage of the archive: what it remembers is learned again. Known damage and saved
 * searches went with it, and must not be forgotten unseen.
 */
function stateAsideWarning(file: string): Warning {
  return {
    code: 'state-put-aside',
    message: `the state could not be read and was moved to ${file}. A new one was created; the archive is not affected.`,
    hint: 'Only the old one has known damage and saved searches: "mailkeep verify" finds the damage again.',
  };
}
