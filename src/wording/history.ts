/** Why something ended, as people say it. */
const ENDED: Readonly<Record<string, string>> = {
  missing: 'no longer at the service',
  moved: 'moved to another folder',
  replaced: 'another message has its uid now',
  renumbered: 'the service renumbered the folder',
  'folder-gone': 'its folder is no longer at the service',
  forgotten: 'forgotten',
};

/** Returns what a fact of a message's history says about its place: in words where there are some, else as it is stored. */
export function eventText(
  event: string,
  detail: Readonly<Record<string, unknown>> | undefined,
): readonly string[] {
  if (detail === undefined) return [];
  if (event === 'held')
    return [detail.held === true ? 'pending deletion' : 'no longer a pending deletion'];
  if (event === 'ended' && typeof detail.reason === 'string') {
    return [ENDED[detail.reason] ?? detail.reason];
  }
  return [JSON.stringify(detail)];
}
