/** Settings of the sections of a file of Amazon's tools; those indented below another are named `above.name`. */
export type Profiles = ReadonlyMap<string, ReadonlyMap<string, string>>;

/**
 * Reads a file of credentials or of configuration: sections in brackets, `name = value`, comments that begin with # or ;.
 * Lines that are none of these are left out, as Amazon's tools do.
 */
export function parseProfiles(text: string): Profiles {
  const profiles = new Map<string, Map<string, string>>();
  let settings: Map<string, string> | undefined;
  let above = '';
  for (const raw of text.split('\n')) {
    const line = raw.trim();
    if (line === '' || line.startsWith('#') || line.startsWith(';')) continue;
    if (line.startsWith('[')) {
      const name = line.slice(1, line.indexOf(']')).trim();
      settings = line.includes(']') ? (profiles.get(name) ?? new Map()) : undefined;
      if (settings !== undefined) profiles.set(name, settings);
      above = '';
      continue;
    }
    const equals = line.indexOf('=');
    if (equals < 0) continue;
    const name = line.slice(0, equals).trim().toLowerCase();
    const isBelow = /^[ \t]/.test(raw) && above !== '';
    if (!isBelow) above = name;
    settings?.set(isBelow ? `${above}.${name}` : name, line.slice(equals + 1).trim());
  }
  return profiles;
}
