import type { ComponentType } from 'react'
import type { RouteObject } from 'react-router'
import type { Shapes } from './api/client.ts'
import type { IconName } from './ui/icons.tsx'

export const groups = ['', 'Addresses', 'Edge', 'Access'] as const

export type Page = {
  path: string
  title: string
  icon: IconName
  /** `person`: shown beside the signed-in person's name, not in the menu. */
  group: (typeof groups)[number] | 'person'
  /** Hidden from members, who cannot use it. */
  isForAdmins?: boolean
}
type Listed = Page & { load: () => Promise<ComponentType> }

/** In menu order. Each page is a separate chunk, loaded when first opened. */
const pages: readonly Listed[] = [
  {
    path: '/',
    title: 'Overview',
    icon: 'overview',
    group: '',
    load: async () => (await import('./pages/overview.tsx')).Overview,
  },
  {
    path: '/traffic',
    title: 'Traffic',
    icon: 'traffic',
    group: '',
    load: async () => (await import('./pages/traffic.tsx')).Traffic,
  },
  {
    path: '/rollouts',
    title: 'Rollouts',
    icon: 'rollouts',
    group: '',
    load: async () => (await import('./pages/rollouts.tsx')).Rollouts,
  },
  {
    path: '/alerts',
    title: 'Alerts',
    icon: 'alerts',
    group: '',
    load: async () => (await import('./pages/alerts.tsx')).Alerts,
  },
  {
    path: '/audit',
    title: 'Audit log',
    icon: 'audit',
    group: '',
    isForAdmins: true,
    load: async () => (await import('./pages/audit.tsx')).Audit,
  },
  {
    path: '/change-sets',
    title: 'Change sets',
    icon: 'edit',
    group: '',
    load: async () => (await import('./pages/change_sets.tsx')).ChangeSets,
  },
  {
    path: '/restrictions',
    title: 'IP restrictions',
    icon: 'restrictions',
    group: 'Addresses',
    load: async () => (await import('./pages/restrictions.tsx')).Restrictions,
  },
  {
    path: '/policies',
    title: 'IP policies',
    icon: 'policies',
    group: 'Addresses',
    load: async () => (await import('./pages/policies.tsx')).Policies,
  },
  {
    path: '/check',
    title: 'Check an address',
    icon: 'check',
    group: 'Addresses',
    load: async () => (await import('./pages/check.tsx')).Check,
  },
  {
    path: '/access-tests',
    title: 'Access tests',
    icon: 'lock',
    group: 'Addresses',
    load: async () => (await import('./pages/access_tests.tsx')).AccessTests,
  },
  {
    path: '/newly-refused',
    title: 'Newly refused',
    icon: 'refused',
    group: 'Addresses',
    isForAdmins: true,
    load: async () => (await import('./pages/newly_refused.tsx')).NewlyRefused,
  },
  {
    path: '/edges',
    title: 'Edges',
    icon: 'edges',
    group: 'Edge',
    load: async () => (await import('./pages/edges.tsx')).Edges,
  },
  {
    path: '/backends',
    title: 'Backends',
    icon: 'backends',
    group: 'Edge',
    load: async () => (await import('./pages/backends.tsx')).BackendsPage,
  },
  {
    path: '/domains',
    title: 'Domains',
    icon: 'domains',
    group: 'Edge',
    load: async () => (await import('./pages/domains.tsx')).Domains,
  },
  {
    path: '/certificates',
    title: 'Certificates',
    icon: 'certificates',
    group: 'Edge',
    load: async () => (await import('./pages/certificates.tsx')).Certificates,
  },
  {
    path: '/nodes',
    title: 'Nodes',
    icon: 'nodes',
    group: 'Edge',
    isForAdmins: true,
    load: async () => (await import('./pages/nodes.tsx')).Nodes,
  },
  {
    path: '/keys',
    title: 'API keys',
    icon: 'keys',
    group: 'Access',
    load: async () => (await import('./pages/keys.tsx')).Keys,
  },
  {
    path: '/people',
    title: 'People and bots',
    icon: 'people',
    group: 'Access',
    load: async () => (await import('./pages/people.tsx')).People,
  },
  {
    path: '/webhooks',
    title: 'Webhooks',
    icon: 'webhooks',
    group: 'Access',
    isForAdmins: true,
    load: async () => (await import('./pages/webhooks.tsx')).Webhooks,
  },
  {
    path: '/settings',
    title: 'Settings',
    icon: 'settings',
    group: 'person',
    load: async () => (await import('./pages/settings.tsx')).Settings,
  },
]

export const visiblePages = (role: Shapes['Caller']['role']): readonly Page[] =>
  pages.filter(({ isForAdmins }) => !isForAdmins || role === 'admin')

/** `/policies` lists, `/policies/ipp_…` shows one; pages without a list ignore the id. */
export const pageRoutes: RouteObject[] = pages.map((page) => ({
  path: page.path === '/' ? '/' : `${page.path}/:id?`,
  handle: page,
  lazy: { Component: page.load },
}))
