import { createCell } from '../../src/commands/cells/cells.ts'
import type { DbPool } from '../../src/db/pool.ts'
import type { ServeProcess } from './control_plane.ts'

/** The cells in which a process publishes, in its own words. */
export async function publishedBy({ origin }: Pick<ServeProcess, 'origin'>): Promise<string[]> {
  const metrics = await (await fetch(`${origin}/metrics`)).text()
  return [...metrics.matchAll(/^gatehouse_publisher_active\{cell="([\w-]+)"\} 1$/gm)].map(([, cell = '']) => cell)
}

/** Beside the default one. */
export async function createCells(db: DbPool, count: number): Promise<void> {
  for (let cell = 1; cell <= count; cell++)
    await createCell(db, { name: `cell-${cell}`, isDefault: false, confirmed: true })
}
