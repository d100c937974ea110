import { loadConfig } from '../../../config/load.ts';
import type { Settings } from '../../../config/settings.ts';
import { readToken } from '../../../config/token.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { MailkeepError } from '../../../errors/mailkeep-error.ts';
import { terminalLine } from '../../../mail/terminal-safe.ts';
import { counted } from '../../../wording/amounts.ts';
import { sentenceOf } from '../../../wording/sentence-of.ts';
import type { CommandContext } from '../../context.ts';
import { warningText } from '../../engine-events.ts';
import { configInForce, sourceText } from './place.ts';

interface Warning {
  readonly code: string;
  readonly message: string;
}

/**
 * `mailkeep config check`: reads the configuration as every other command does, and tries to read its tokens. Neither
 * the service nor the archive is asked.
 *
 * @throws config-not-found, config-unreadable, config-not-json, config-invalid
 */
export async function checkConfig(context: CommandContext): Promise<ExitCode> {
  const { output, surroundings } = context;
  const place = configInForce(context);
  const { file, source } = place;
  const loaded = loadConfig(file);
  const warnings = [
    ...loaded.warnings.map((it) => ({ code: it.code, message: warningText(it) })),
    ...(await unreadTokens(loaded.settings, surroundings.env)),
  ];
  const accounts = loaded.settings.accounts.length;
  await output.object({ file, source, ok: true, accounts, warnings }, () =>
    [
      `${terminalLine(file)} is in order (${sourceText(place, surroundings)}; ${counted(accounts, 'account')}).`,
      ...warnings.map(
        ({ message }) => `${output.colours.yellow('warning:')} ${terminalLine(message)}`,
      ),
    ].join('\n'),
  );
  return EXIT.done;
}

/** A token may be readable for the daemon alone, so that here it is no error. */
async function unreadTokens(settings: Settings, env: CommandContext['surroundings']['env']) {
  const warnings: Warning[] = [];
  for (const { name, token, platform } of settings.accounts) {
    for (const source of platform === null ? [token] : [token, platform.token]) {
      try {
        await readToken(source, env);
      } catch (error) {
        if (!(error instanceof MailkeepError)) throw error;
        warnings.push({
          code: error.code,
          message: `account ${name}: ${sentenceOf(error).message}`,
        });
      }
    }
  }
  return warnings;
}
