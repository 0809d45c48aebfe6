/** A browser without pages: it keeps cookies by host and port, and follows redirects one by one. */
export type Walker = {
  /** Requests one address, with the cookies of its host. */
  step: (url: string, init?: RequestInit) => Promise<Response>
  /** Follows redirects until one leads to an address for which `isEnd` holds, or there is none. Resolves to the last address. */
  walk: (url: string, isEnd?: (url: URL) => boolean) => Promise<URL>
  readonly cookies: Map<string, Map<string, string>>
}

let walkers = 0

/** Each from an address of its own, where the service believes it: the failures of one must not limit the others. */
export function newWalker(address = `198.51.100.${++walkers % 250}`): Walker {
  const cookies = new Map<string, Map<string, string>>()
  const jarOf = ({ host }: URL) => {
    const jar = cookies.get(host) ?? new Map<string, string>()
    cookies.set(host, jar)
    return jar
  }
  async function step(target: string, init: RequestInit = {}): Promise<Response> {
    const url = new URL(target)
    const jar = jarOf(url)
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ')
    const response = await fetch(url, {
      ...init,
      redirect: 'manual',
      headers: { 'x-forwarded-for': address, ...init.headers, cookie },
    })
    for (const set of response.headers.getSetCookie()) {
      const [pair = ''] = set.split(';')
      const name = pair.slice(0, pair.indexOf('='))
      const value = pair.slice(name.length + 1)
      if (value === '' || /max-age=0|1970/i.test(set)) jar.delete(name)
      else jar.set(name, value)
    }
    return response
  }
  return {
    cookies,
    step,
    async walk(begin, isEnd = () => false) {
      let url = new URL(begin)
      for (let steps = 0; steps < 20 && !isEnd(url); steps++) {
        const response = await step(url.href)
        await response.arrayBuffer()
        const location = response.headers.get('location')
        if (!location) return url
        url = new URL(location, url)
      }
      return url
    },
  }
}
