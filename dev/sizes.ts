import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'

const kilobytes = (bytes: number) => `${Math.round(bytes / 1_000)} KB`

/** The sizes of what `npm run build` made. Fonts and images are not counted: a browser loads them after the text is drawn. */
export function sizesOf({ program, dashboard }: { program: string; dashboard: string }): string[] {
  const scripts = readdirSync(program).filter((name) => name.endsWith('.js'))
  const entry = [...readFileSync(join(dashboard, 'index.html'), 'utf8').matchAll(/assets\/[\w.-]+\.(?:js|css)/g)].map(
    String,
  )
  const pages = readdirSync(join(dashboard, 'assets')).filter((name) => name.endsWith('.js'))
  const overview = pages.filter((name) => name.startsWith('overview-')).map((name) => `assets/${name}`)
  return [
    `program: ${kilobytes(size(program, scripts))} in ${scripts.length} files`,
    `dashboard, first load of the overview: ${kilobytes(compressed(dashboard, withImports(dashboard, [...entry, ...overview])))} compressed`,
    `dashboard, all pages: ${kilobytes(compressed(join(dashboard, 'assets'), pages))} compressed`,
  ]
}

/** The files, and those that they import before they run. */
function withImports(folder: string, files: string[]): string[] {
  const all = new Set(files)
  for (const file of all)
    for (const [, name] of readFileSync(join(folder, file), 'utf8').matchAll(/(?:from|import)"\.\/([\w.-]+\.js)"/g))
      all.add(`assets/${name}`)
  return [...all]
}

const read = (folder: string, files: string[]) => files.map((file) => readFileSync(join(folder, file)))
const sum = (sizes: number[]) => sizes.reduce((total, each) => total + each, 0)
const size = (folder: string, files: string[]) => sum(read(folder, files).map(({ length }) => length))
const compressed = (folder: string, files: string[]) => sum(read(folder, files).map((text) => gzipSync(text).length))
