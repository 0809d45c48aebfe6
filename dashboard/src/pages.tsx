import type { ComponentType } from 'react'
import type { RouteObject } from 'react-router'
import type { IconName } from './ui/icons.tsx'

export type Page = { path: string; title: string; icon: IconName }
type Listed = Page & { load: () => Promise<ComponentType> }

/** In the order of the menu. Each is a chunk of its own, fetched when it is first opened. */
export const pages: readonly Listed[] = [
  { path: '/', title: 'Overview', icon: 'overview', load: async () => (await import('./pages/overview.tsx')).Overview },
  { path: '/keys', title: 'API keys', icon: 'keys', load: async () => (await import('./pages/keys.tsx')).Keys },
  {
    path: '/policies',
    title: 'IP policies',
    icon: 'policies',
    load: async () => (await import('./pages/policies.tsx')).Policies,
  },
  {
    path: '/restrictions',
    title: 'IP restrictions',
    icon: 'restrictions',
    load: async () => (await import('./pages/restrictions.tsx')).Restrictions,
  },
  {
    path: '/edges',
    title: 'Edges and routes',
    icon: 'edges',
    load: async () => (await import('./pages/edges.tsx')).Edges,
  },
  {
    path: '/check',
    title: 'Check an address',
    icon: 'check',
    load: async () => (await import('./pages/check.tsx')).Check,
  },
  { path: '/audit', title: 'Audit', icon: 'audit', load: async () => (await import('./pages/audit.tsx')).Audit },
]

/** `/policies` lists, `/policies/ipp_…` shows one; pages that list nothing ignore what follows. */
export const pageRoutes: RouteObject[] = pages.map((page) => ({
  path: page.path === '/' ? '/' : `${page.path}/:id?`,
  handle: page,
  lazy: { Component: page.load },
}))
