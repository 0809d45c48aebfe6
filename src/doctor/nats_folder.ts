import { readFileSync } from 'node:fs'
import type { Finding } from './finding.ts'
import { checkWritableFolder } from './folders.ts'
import type { Service } from './services.ts'

/** NATS keeps running without its disk, and loses everything at the next start. */
export async function checkNatsFolder({ commandLine, stateFolder, account }: Service): Promise<Finding[]> {
  const path = storeFolder(commandLine) ?? stateFolder
  return path ? checkWritableFolder({ check: 'nats.folder', setting: 'store_dir', path, account }) : []
}

function storeFolder(commandLine: string): string | undefined {
  const [, file] = /(?:^| )(?:-c|--config)[ =](\S+)/.exec(commandLine) ?? []
  try {
    return file && /^\s*store_dir\s*[:=]\s*"?([^"\s]+)"?/m.exec(readFileSync(file, 'utf8'))?.[1]
  } catch {
    return undefined
  }
}
