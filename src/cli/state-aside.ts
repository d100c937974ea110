/**
 * Returns the warning that a damaged state was put aside. Known damage went with it, and must not be forgotten unseen.
 *
 * @param file where it went
 */
export function stateAsideText(file: string): string {
  return `the state could not be read and was put aside as ${file}. Damage that verifications had found is known only there: "mailkeep verify" finds it again.`;
}
