import { locateDataDir } from '../config/located-fields.ts';
import { requireArchive } from '../engine/archive/archive-folder.ts';
import { openReader, type Reader } from '../engine/archive/reader.ts';
import type { CommandContext } from './context.ts';

/** Returns the folder of the archive. @throws usage-no-archive, archive-unreadable */
export function archiveOf({ globals, surroundings }: CommandContext): string {
  const dataDir = locateDataDir(globals, surroundings);
  requireArchive(dataDir, true);
  return dataDir;
}

/** Opens the archive for reading, for as long as `act` takes. @throws what `openReader` throws */
export async function withReader<T>(
  context: Parameters<typeof openReader>[0],
  act: (reader: Reader) => T | Promise<T>,
): Promise<T> {
  const reader = openReader(context);
  try {
    return await act(reader);
  } finally {
    reader.close();
  }
}
