import { counted } from '../../../core/text.ts';

/** Returns what became of an import that was called off. */
export function calledOffText(account: string, tenant: string, objects: number): string {
  const deleted =
    objects === 0
      ? 'Nothing of it is in the bucket'
      : `${counted(objects, 'object')} of it will be deleted`;
  return `The import of ${account} (tenant ${tenant}) was called off. ${deleted}; the archive that it came from is as it was.`;
}
