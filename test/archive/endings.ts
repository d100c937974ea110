import type { SimulatedDisk, Survives } from './simulated-disk.ts';

/** How a process ends at some act, and the disk that the next one finds. */
export interface Ending {
  /** Names it in a failure. */
  readonly name: string;
  after(disk: SimulatedDisk): SimulatedDisk;
}

/** Seeds of power cuts, each of which loses other writes; by hand, hundreds: MAILKEEP_POWER_CUTS=200 */
export function powerCuts(byDefault: number): number {
  return Number(process.env.MAILKEEP_POWER_CUTS ?? byDefault);
}

/** A kill, a power cut that loses all that was not synced, and one for each seed that loses some of it. */
export function endings(seeds: number): readonly Ending[] {
  return [
    { name: 'killed', after: (disk) => disk.afterKill() },
    { name: 'power cut, all lost', after: (disk) => disk.afterPowerCut(() => false) },
    ...Array.from({ length: seeds }, (_, seed) => ({
      name: `power cut, seed ${seed}`,
      // Other losses at each act: a cut that comes earlier has asked fewer times.
      after: (disk: SimulatedDisk) => disk.afterPowerCut(chances(seed * 65_537 + disk.acts)),
    })),
  ];
}

/** Two of three things survive. */
function chances(seed: number): Survives {
  let state = (Math.imul(seed + 1, 2_654_435_761) >>> 1) % 2_147_483_648;
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fff_ffff;
    return (state >> 8) % 3 !== 0;
  };
}
