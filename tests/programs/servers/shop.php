<?php
// SPDX-License-Identifier: Apache-2.0
// A shop of one file in PHP, for php-fpm behind nginx.
namespace Shop;

final class Order
{
    public function __construct(public string $customer, public float $total, public \DateTimeImmutable $placed) {}

    public function discounted(): float
    {
        return $this->total * ($this->total > 300 ? 0.9 : 1);
    }
}

function orders(): array
{
    $first = new \DateTimeImmutable('2026-01-01');
    return array_map(fn (int $i) => new Order('customer ' . $i % 37, $i * 1.25, $first->modify('+' . $i % 300 . ' days')), range(0, 599));
}

function row(Order $order): string
{
    return sprintf('<tr><td>%s</td><td>%.2f</td><td>%s</td></tr>', htmlspecialchars(ucfirst($order->customer)), $order->total, $order->placed->format('Y-m-d'));
}

function list_orders(): void
{
    $chosen = array_filter(orders(), fn (Order $order) => $order->total > 100);
    usort($chosen, fn (Order $a, Order $b) => strcmp($a->customer, $b->customer));
    echo '<table>', implode('', array_map(row(...), $chosen)), '</table>';
}

function report(): void
{
    $sums = [];
    foreach (orders() as $order) {
        $sums[$order->customer] = ($sums[$order->customer] ?? 0) + $order->discounted();
    }
    echo json_encode($sums);
}

str_ends_with($_SERVER['DOCUMENT_URI'] ?? '', 'report') ? report() : list_orders();
