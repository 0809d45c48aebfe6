import { ConfigError } from '../kernel/config_error.ts'
import { setting } from './setting.ts'
import { list, text } from './values.ts'

export const backupSettings = {
  GATEHOUSE_BACKUP_RECIPIENTS_FILE: setting({
    default: '/etc/gatehouse/backup-recipients',
    help: "File of the public keys that 'gatehouse backup' encrypts to, one a line, as 'age-keygen' prints them.",
    parse: text,
  }),
  GATEHOUSE_BACKUP_INCLUDE: setting({
    default: '/etc/gatehouse,/etc/gatehouse-nats,/etc/gatehouse-edge',
    help: 'Files and folders that are backed up with the database, comma-separated. Those that do not exist are left out. none: only the database.',
    parse(value) {
      const paths = value === 'none' ? [] : list(value)
      if (paths.some((path) => !path.startsWith('/'))) throw new ConfigError('must be absolute paths, or none')
      return paths
    },
  }),
}
