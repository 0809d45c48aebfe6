// Attaches to a running HAProxy and begins a batch; maps.test.ts kills it meanwhile.
import { createProxy } from '../../src/agent/haproxy/apply.ts'
import type { Entry } from '../../src/agent/haproxy/maps/entries.ts'
import type { Change } from '../../src/agent/haproxy/maps/map_enforcement.ts'
import type { ProxySettings } from '../../src/agent/haproxy/settings.ts'

process.once(
  'message',
  async ({ settings, all, change }: { settings: ProxySettings; all: Entry[]; change: Change }) => {
    const proxy = createProxy(settings)
    await proxy.start(all)
    await proxy.apply(change)
  },
)
