import { glob, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'

const root = new URL('../..', import.meta.url).pathname

/** They build machines, so they need root, programs of Debian, and no PostgreSQL of ours. */
const machineDrills: Record<string, string> = {
  install: 'dev/clean_install.ts',
  'two-machines': 'dev/two_machines.ts',
  boot: 'dev/boot_drill.ts',
  'apt-life': 'dev/apt_life.ts',
  'operate-pages': 'dev/operate_pages.ts',
  pods: 'dev/pods_drill.ts',
  availability: 'test/availability/drill.ts',
}

export type Drill = { name: string; file: string; usage: string; summary: string; onMachine: boolean }

/** Every drill, described by the comment at the top of its file: `npm run drill -- <name> <arguments>`, then what it shows. */
export async function listDrills(): Promise<Drill[]> {
  const files = new Map(Object.entries(machineDrills))
  for await (const file of glob('test/drills/*.ts', { cwd: root }))
    files.set(basename(file, '.ts').replaceAll('_', '-'), file)
  const drills = [...files].map(async ([name, file]) => {
    const [comment = ''] = /^(?:\/\/.*\n)+/.exec(await readFile(join(root, file), 'utf8')) ?? []
    const text = comment
      .replace(/^\/\/ ?/gm, '')
      .replaceAll('\n', ' ')
      .trim()
    const [, named, given = '', summary] = /^`npm run drill -- (\S+?)(?: ([^`]+))?`: (.*?[.?])(?: |$)/.exec(text) ?? []
    if (named !== name || !summary)
      throw new Error(`${file} must begin with '// \`npm run drill -- ${name}\`: what it shows.'`)
    return { name, file, usage: `${name} ${given}`.trim(), summary, onMachine: name in machineDrills }
  })
  return (await Promise.all(drills)).sort((a, b) => (a.name < b.name ? -1 : 1))
}
