// Copies the built dashboard to the folder from which `gatehouse serve` serves it, with a compressed twin of every file
// that benefits.
import { cp, glob, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, gzip } from 'node:zlib'

const compressible = /\.(?:html|js|css|svg|txt)$/

/** Resolves to the number of files; 0 if the dashboard is not built. */
export async function copyDashboard(from: string, to: string): Promise<number> {
  if (!(await stat(join(from, 'index.html')).catch(() => undefined))) return 0
  await cp(from, to, { recursive: true })
  const files = await Array.fromAsync(glob('**/*.*', { cwd: to }))
  for (const file of files.filter((name) => compressible.test(name))) {
    const content = await readFile(join(to, file))
    await writeFile(join(to, `${file}.br`), await promisify(brotliCompress)(content))
    await writeFile(join(to, `${file}.gz`), await promisify(gzip)(content, { level: 9 }))
  }
  return files.length
}
