/** Drawn for a 16-pixel grid; they take the color of the text beside them and are silent to screen readers. */
const paths = {
  overview: 'M2.5 8.5 8 3l5.5 5.5M4 7.5V13h8V7.5',
  traffic: 'M1.5 8.500h3l2-5.500 3 10 2-4.500h3',
  pause: 'M5.500 3.500v9M10.500 3.500v9',
  play: 'M5 3.500 12.500 8 5 12.500v-9Z',
  people:
    'M6 7.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5M1.5 13.5c0-2.5 2-4 4.5-4s4.5 1.5 4.5 4M11 7.2a2.2 2.2 0 0 0 0-4.3M12.2 9.8c1.5.6 2.3 1.9 2.3 3.7',
  keys: 'M10.5 2.5a3 3 0 1 1-2.6 4.5L3 11.9V13.5h2.5v-2H7V10l1-1M11 5.2v.1',
  policies: 'M2.5 4h11M2.5 8h11M2.5 12h7',
  restrictions: 'M8 1.8 13 3.6v4c0 3.2-2 5.4-5 6.6-3-1.2-5-3.4-5-6.6v-4L8 1.8Z',
  edges: 'M8 2.5v4M3.5 13.5v-3h9v3M8 6.5v4M6.5 2.5h3M2 13.5h3M11 13.5h3',
  backends: 'M2.5 3h11v4h-11V3ZM2.5 9h11v4h-11V9ZM5 5v.01M5 11v.01',
  domains:
    'M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2M2 8h12M8 2c2 1.700 2.700 3.800 2.700 6S10 12.300 8 14M8 2C6 3.700 5.300 5.800 5.300 8S6 12.300 8 14',
  certificates:
    'M2.500 3h11v8h-4M6.500 11h-4V3M5 5.800h6M8 8.300a1.800 1.800 0 1 1 0 3.600 1.800 1.800 0 0 1 0-3.600M7 11.700V14l1-.7 1 .7v-2.300',
  nodes: 'M8 1.8 13.5 5v6L8 14.2 2.5 11V5L8 1.8ZM2.7 5.1 8 8.2l5.3-3.1M8 8.2v6',
  check: 'M8 1.5v3M8 11.5v3M1.5 8h3M11.5 8h3M8 3.8a4.2 4.2 0 1 1 0 8.4 4.2 4.2 0 0 1 0-8.4',
  audit: 'M4 1.8h5.5L12.5 5v9.2H4V1.8ZM6 7h4.5M6 9.5h4.5M6 12h2.5',
  webhooks: 'M3 8a2 2 0 1 1 0 .01M13 4a2 2 0 1 1 0-.01M13 12a2 2 0 1 1 0-.01M5 7.2 9.2 4.6M5 8.8l4.2 2.6',
  search: 'M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9M10.3 10.3l3.4 3.4',
  allowed: 'M3 8.5 6.5 12 13 4.5',
  refused: 'M4 4l8 8M12 4l-8 8',
  warned: 'M8 2 14.5 13.5h-13L8 2ZM8 6.5v3.2M8 11.6v.1',
  unknown: 'M8 3v6M8 12v.1',
  copy: 'M5.5 5.5V2.5h8v8h-3M2.5 5.5h8v8h-8v-8Z',
  plus: 'M8 3v10M3 8h10',
  menu: 'M2.5 4.5h11M2.5 8h11M2.5 11.5h11',
  more: 'M3.5 8v.01M8 8v.01M12.5 8v.01',
  close: 'M4 4l8 8M12 4l-8 8',
  light:
    'M8 5.2a2.8 2.8 0 1 1 0 5.6 2.8 2.8 0 0 1 0-5.6M8 1.2v1.6M8 13.2v1.6M1.2 8h1.6M13.2 8h1.6M3.2 3.2l1.1 1.1M11.7 11.7l1.1 1.1M3.2 12.8l1.1-1.1M11.7 4.3l1.1-1.1',
  dark: 'M13 9.5A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.5Z',
  system: 'M2.5 3h11v7.5h-11V3ZM6 13.5h4M8 10.5v3',
  arrow: 'M3 8h10M9.5 4.5 13 8l-3.5 3.5',
  leave: 'M6.5 2.5h-4v11h4M6.5 8h7M11 5.5 13.5 8 11 10.5',
  down: 'M4 6l4 4 4-4',
  up: 'M4 10l4-4 4 4',
  right: 'M6 4l4 4-4 4',
  updown: 'M5 6l3-3 3 3M5 10l3 3 3-3',
  sortUp: 'M8 13V3M4.5 6.5 8 3l3.5 3.5',
  sortDown: 'M8 3v10M4.5 9.5 8 13l3.5-3.5',
  density: 'M2.5 3.5h11M2.5 6.5h11M2.5 9.5h11M2.5 12.5h11',
  edit: 'M10.8 2.7l2.5 2.5-7.6 7.6-3.2.7.7-3.2 7.6-7.6Z',
  trash: 'M3 4.5h10M6.5 4.5v-2h3v2M4.5 4.5l.6 9h5.8l.6-9',
  rotate: 'M13 8a5 5 0 1 1-1.5-3.6M13 2.5v2.7h-2.7',
  clock: 'M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2M8 4.8V8l2.2 1.5',
  bot: 'M3 6h10v7H3V6ZM8 6V3M6 9.2v.8M10 9.2v.8M1.500 9v2M14.500 9v2',
  lock: 'M4 7.5h8v6H4v-6ZM5.5 7.5V5.2a2.5 2.5 0 0 1 5 0v2.300',
  download: 'M8 2.500v8M4.500 7 8 10.500 11.500 7M3 13.500h10',
  help: 'M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2M6.300 6.300a1.700 1.700 0 1 1 2.400 1.600c-.5.2-.7.5-.7 1M8 11v.1',
} as const
export type IconName = keyof typeof paths

export function Icon({ name }: { name: IconName }) {
  return (
    <svg className="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={paths[name]} />
    </svg>
  )
}
