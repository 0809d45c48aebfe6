import { Gauge, type Registry } from 'prom-client'

export type BackupMetrics = { readonly showNewestBackup: (at: Date | undefined) => void }

export function backupMetrics(registers: Registry[]): BackupMetrics {
  let seconds: number | undefined
  new Gauge({
    name: 'gatehouse_backup_timestamp_seconds',
    help: "The moment that the newest complete backup of 'gatehouse backup' shows, since 1970. 0: there is none. Updated every minute.",
    registers,
    collect() {
      if (seconds === undefined) this.reset()
      else this.set(seconds)
    },
  })
  return {
    showNewestBackup(at) {
      seconds = at ? at.getTime() / 1_000 : 0
    },
  }
}
