import { wrongStructure } from '../catalog/structure.ts';
import { MailkeepError } from '../errors/mailkeep-error.ts';

/** What is wrong in the file of an archive's catalog, damage that keeps it from being read included. */
export function foundInStructure(dir: string): readonly string[] {
  try {
    return wrongStructure(dir);
  } catch (error) {
    if (!(error instanceof MailkeepError) || error.family !== 'damage') throw error;
    return [String(error.facts.reason ?? error.code)];
  }
}
