// SPDX-License-Identifier: Apache-2.0
// A shop of one file in Express 4: npm install express@4 && node express_shop.js PORT
'use strict';
const express = require('express');

const orders = Array.from({ length: 600 }, (_, i) => ({ customer: `customer ${i % 37}`, total: i * 1.25, placed: new Date(2026, 0, 1 + (i % 300)) }));

function discount(order) {
	return order.total * (order.total > 300 ? 0.9 : 1);
}

function row(order) {
	return `<tr><td>${order.customer}</td><td>${order.total.toFixed(2)}</td><td>${order.placed.toISOString().slice(0, 10)}</td></tr>`;
}

function listOrders(request, response) {
	const chosen = orders.filter((order) => order.total > 100).sort((a, b) => a.customer.localeCompare(b.customer));
	response.send(`<table>${chosen.map(row).join('')}</table>`);
}

function report(request, response) {
	const sums = {};
	for (const order of orders) sums[order.customer] = (sums[order.customer] ?? 0) + discount(order);
	response.json(sums);
}

const app = express();
app.use(express.json());
app.get('/orders', listOrders);
app.get('/report', report);
app.listen(Number(process.argv[2]), '127.0.0.1');
