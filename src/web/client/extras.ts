/** What hangs over a page when it is asked for: it is loaded with the first of them. */
export { FolderMenu, PeopleMenu, SinceMenu } from './filter-menus.tsx';
export { KeyMap } from './key-map.tsx';
export { OpenBand } from './open-band.tsx';
export { SaveBox } from './save-box.tsx';
