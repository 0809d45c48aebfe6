import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'

// `npm run dev -w dashboard` with GATEHOUSE_URL and, until one signs in, GATEHOUSE_API_KEY from `npm run dev`.
const target = process.env.GATEHOUSE_URL ?? 'http://127.0.0.1:8080'
const token = process.env.GATEHOUSE_API_KEY

export default defineConfig({
  base: '/dashboard/',
  plugins: [react()],
  build: {
    // Nothing as data: address, since the page's policy loads from its own origin only.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: {
    proxy: {
      '^/(?!dashboard/)': {
        target,
        ...(token && { headers: { authorization: `Bearer ${token}` } }),
      },
    },
  },
})
