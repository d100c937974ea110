import { locateDataDir } from '../../../config/data-dir.ts';
import { type ShownField, shownFields } from '../../../config/shown.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { terminalLine } from '../../../mail/terminal-safe.ts';
import { tableText } from '../../columns.ts';
import type { CommandContext } from '../../context.ts';
import { configInForce, sourceText } from './place.ts';

/**
 * `mailkeep config show`: the configuration in force, defaults included and secrets masked.
 *
 * @throws config-not-found, config-unreadable, config-not-json, config-invalid
 */
export async function showConfig(context: CommandContext): Promise<ExitCode> {
  const { output, globals, surroundings } = context;
  const place = configInForce(context);
  const { file, source } = place;
  const fields = shownFields(file);
  const dataDir = locateDataDir(globals, surroundings);
  await output.object({ file, source, dataDir, fields }, () =>
    [
      `${terminalLine(file)} (${sourceText(place, surroundings)})`,
      `archive: ${terminalLine(dataDir)}`,
      '',
      tableText(['field', 'value', ''], fields.map(rowOf), 1, output),
    ].join('\n'),
  );
  return EXIT.done;
}

function rowOf({ path, value, isDefault }: ShownField): string[] {
  return [path, JSON.stringify(value), isDefault ? 'default' : ''];
}
